"""Calibration: which splits to measure, how to start them, and the campaign that does it."""

from __future__ import annotations

from precice_lb.calibrate.campaign import (
    CampaignEnded,
    CampaignStarted,
    CampaignWarned,
    Event,
    Report,
    RunFinished,
    RunResumed,
    RunStarted,
    print_event,
    run_campaign,
)
from precice_lb.calibrate.design_adaptive import CalibrationDesign
from precice_lb.calibrate.launchers import Launcher
from precice_lb.calibrate.plan import RunPlan, Task
from precice_lb.calibrate.read import read_study
from precice_lb.calibrate.result import CampaignResult, load_campaign
from precice_lb.calibrate.schedulers import Scheduler
from precice_lb.calibrate.state import RunRecord
from precice_lb.calibrate.study import Study

__all__ = [
    "CalibrationDesign",
    "CampaignEnded",
    "CampaignResult",
    "CampaignStarted",
    "CampaignWarned",
    "Event",
    "Launcher",
    "Report",
    "RunFinished",
    "RunPlan",
    "RunRecord",
    "RunResumed",
    "RunStarted",
    "Scheduler",
    "Study",
    "Task",
    "load_campaign",
    "print_event",
    "read_study",
    "run_campaign",
]
