"""What `make lab` gives to JupyterLab: jupyter lab --config=tools/jupyter/jupyter_lab_config.py"""

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from notebooks import tidy  # noqa: E402  (tools/notebooks.py)


def tidy_on_save(model, **kwargs):
    """Take out of a notebook that is about to be saved what only this machine has.

    A widget view without its model shows an error where the picture should be, so a student who saves,
    closes and opens again would lose the picture.
    """
    if model["type"] == "notebook" and isinstance(model.get("content"), dict):
        model["content"] = tidy(model["content"])


# Jupyter reads this file twice and warns that the hook replaces itself.
warnings.filterwarnings("ignore", message="Overriding existing pre_save_hook")

c = get_config()  # noqa: F821  (given by Jupyter)
c.ContentsManager.pre_save_hook = tidy_on_save
# JupyterLab refuses to start for root, the usual user in a container.
c.ServerApp.allow_root = True
# The course opens at its first notebook.
c.LabApp.default_url = "/lab/tree/notebooks/01_kv_cost.ipynb"
# No question about news and no look for updates: both would need the network.
c.LabApp.news_url = None
c.LabApp.check_for_updates_class = "jupyterlab.NeverCheckForUpdate"
