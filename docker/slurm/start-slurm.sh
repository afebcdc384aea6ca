#!/bin/bash
# start-slurm DIRECTORY USER COMMAND...
#
# Starts a controller and four virtual nodes of eight CPUs on this machine, all of their state below DIRECTORY, runs
# COMMAND as USER, and stops everything. As root. SLURM_PORT is the first of the five ports on loopback (17000).
set -euo pipefail

if [ "$#" -lt 3 ]; then
  echo "usage: start-slurm DIRECTORY USER COMMAND..." >&2
  exit 2
fi
directory=$1
user=$2
shift 2
port=${SLURM_PORT:-17000}
host=$(hostname -s)
export SLURM_CONF=$directory/slurm.conf

mkdir -p "$directory/state"
chmod 755 "$directory"
cat >"$SLURM_CONF" <<CONFIGURATION
ClusterName=here
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$directory/munge.socket
CredType=cred/munge
StateSaveLocation=$directory/state
SlurmdSpoolDir=$directory/spool-%n
SlurmctldPidFile=$directory/slurmctld.pid
SlurmdPidFile=$directory/slurmd-%n.pid
SlurmctldLogFile=$directory/slurmctld.log
SlurmdLogFile=$directory/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,bf_interval=1,sched_interval=1,sched_min_interval=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
KillWait=1
TmpFS=$directory/tmp-%n
SlurmdParameters=config_overrides
CONFIGURATION
for node in 0 1 2 3; do
  mkdir -p "$directory/spool-n$node" "$directory/tmp-n$node"
  echo "NodeName=n$node NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1 + node)) CPUs=8 State=UNKNOWN" >>"$SLURM_CONF"
done
echo "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP" >>"$SLURM_CONF"

daemons=()
stop() {
  scancel --user="$user" 2>/dev/null || true
  kill "${daemons[@]}" 2>/dev/null || true
  wait
}
trap stop EXIT

head -c 1024 /dev/urandom >"$directory/munge.key"
chmod 600 "$directory/munge.key"
munged --foreground --force --key-file="$directory/munge.key" --socket="$directory/munge.socket" \
  --pid-file="$directory/munge.pid" --log-file="$directory/munge.log" --seed-file="$directory/munge.seed" \
  >"$directory/munged.out" 2>&1 &
daemons+=("$!")
for _ in $(seq 100); do
  [ -S "$directory/munge.socket" ] && break
  sleep 0.1
done
slurmctld -c -D >"$directory/slurmctld.out" 2>&1 &
daemons+=("$!")
for node in 0 1 2 3; do
  slurmd -D -N "n$node" >"$directory/slurmd-n$node.out" 2>&1 &
  daemons+=("$!")
done
for _ in $(seq 300); do
  [ "$(sinfo --noheader --format='%T %D' 2>/dev/null)" = "idle 4" ] && break
  sleep 0.2
done
if [ "$(sinfo --noheader --format='%T %D' 2>/dev/null)" != "idle 4" ]; then
  echo "start-slurm: the nodes did not come up; see the logs in $directory" >&2
  exit 1
fi

if [ "$user" = "$(id -un)" ]; then
  "$@"
else
  setpriv --reuid="$user" --regid="$user" --init-groups env HOME="$(getent passwd "$user" | cut -d: -f6)" "$@"
fi
