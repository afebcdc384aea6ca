"""Calibration: which splits to measure, how to start them, and the campaign that does it."""

from __future__ import annotations

from precice_lb.calibrate.campaign import CampaignResult, load_campaign, run_campaign
from precice_lb.calibrate.design import Design, FixedDesign, Proposal, spread_splits
from precice_lb.calibrate.design_adaptive import CalibrationDesign
from precice_lb.calibrate.design_fixed import doubling_splits, grid_splits
from precice_lb.calibrate.design_study import AdaptiveDesign, design_of
from precice_lb.calibrate.events import (
    CampaignEnded,
    CampaignStarted,
    CampaignWarned,
    Event,
    Report,
    RunFinished,
    RunResumed,
    RunStarted,
    print_event,
)
from precice_lb.calibrate.launchers import Launcher, launcher, launcher_names, make_launcher
from precice_lb.calibrate.plan import LauncherOptions, RunPlan, Task
from precice_lb.calibrate.read import read_study
from precice_lb.calibrate.schedulers import Scheduler
from precice_lb.calibrate.state import RunRecord, Settings
from precice_lb.calibrate.study import Study

__all__ = [
    "AdaptiveDesign",
    "CalibrationDesign",
    "CampaignEnded",
    "CampaignResult",
    "CampaignStarted",
    "CampaignWarned",
    "Design",
    "Event",
    "FixedDesign",
    "Launcher",
    "LauncherOptions",
    "Proposal",
    "Report",
    "RunFinished",
    "RunPlan",
    "RunRecord",
    "RunResumed",
    "RunStarted",
    "Scheduler",
    "Settings",
    "Study",
    "Task",
    "design_of",
    "doubling_splits",
    "grid_splits",
    "launcher",
    "launcher_names",
    "load_campaign",
    "make_launcher",
    "print_event",
    "read_study",
    "run_campaign",
    "spread_splits",
]
