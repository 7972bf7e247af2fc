"""What `make lab` gives to JupyterLab: jupyter lab --config=tools/jupyter/jupyter_lab_config.py"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from notebooks import strip  # noqa: E402  (tools/notebooks.py)


def strip_on_save(model, **kwargs):
    """Take the widget views out of a notebook that is about to be saved.

    A view without its model shows an error where the picture should be, so a student who saves, closes
    and opens again would lose the picture.
    """
    if model["type"] == "notebook" and isinstance(model.get("content"), dict):
        model["content"] = strip(model["content"])


c = get_config()  # noqa: F821  (given by Jupyter)
c.ContentsManager.pre_save_hook = strip_on_save
# JupyterLab refuses to start for root, the usual user in a container.
c.ServerApp.allow_root = True
# The course opens at its first notebook.
c.LabApp.default_url = "/lab/tree/notebooks/01_kv_cost.ipynb"
# No question about news and no look for updates: both would need the network.
c.LabApp.news_url = None
c.LabApp.check_for_updates_class = "jupyterlab.NeverCheckForUpdate"
