"""Calibration: which splits to measure, how to start them, and the campaign that does it."""

from __future__ import annotations

from precice_lb.campaign.campaign import Event, calibrate, run_campaign
from precice_lb.campaign.design import CalibrationDesign
from precice_lb.campaign.launchers import Launcher
from precice_lb.campaign.plan import RunPlan, Task
from precice_lb.campaign.read import read_study
from precice_lb.campaign.state import CampaignResult, load_campaign
from precice_lb.campaign.study import Study
from precice_lb.rooms import lazily

__all__ = [
    "CalibrationDesign",
    "CampaignResult",
    "Event",
    "Launcher",
    "RunPlan",
    "Study",
    "Task",
    "calibrate",
    "load_campaign",
    "read_study",
    "run_campaign",
]

__getattr__ = lazily(
    __name__,
    design=("Proposal", "StudyDesign", "existing_runs"),
    launch=("write_scripts",),
    plan=("command_tokens", "file_name"),
    prepare=("prepare_in", "tasks_of"),
    processes=("TOKEN_VARIABLE", "run_processes"),
    state=("RunRecord", "campaign_lock", "failed_splits"),
    worth=("NextRun", "PosteriorSplits", "Prospects", "next_runs"),
)
