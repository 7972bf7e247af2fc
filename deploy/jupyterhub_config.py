"""A class on one Linux machine: JupyterHub, a folder for each student, a limit of memory for each.

    CLASS_PASSWORD=... CLASS_FOLDER=/srv/class jupyterhub --config=deploy/jupyterhub_config.py

Everybody who knows the password picks a name and gets a JupyterLab of their own. All run as the account that starts
the hub, so students are not protected from each other: for a course among people who trust each other, in a room.
See deploy/README.md for accounts, limits kept by systemd, and what was tried.
"""

import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
HOMES = Path(os.environ.get("CLASS_FOLDER", "class")).resolve()
# Of one process, a kernel or a student's server: twice what the largest notebook takes and more. More ends in a
# MemoryError in that student's cell, not in a machine that swaps for everybody.
LIMIT = 1_500_000_000  # bytes
SEATS = 10  # servers at a time, for 2 cores and 8 GB; benchmarks/students.py measures it
IDLE = 1800  # seconds until an unused kernel ends, and a server with none


def hand_out(spawner):
    """Copy the notebooks that a student does not have yet; what they changed stays."""
    folder = HOMES / spawner.user.name / "notebooks"
    folder.mkdir(parents=True, exist_ok=True)
    for path in NOTEBOOKS.glob("*.ipynb"):
        if not (folder / path.name).exists():
            shutil.copy(path, folder)


c = get_config()  # noqa: F821  (given by JupyterHub)
c.JupyterHub.authenticator_class = "shared-password"
c.SharedPasswordAuthenticator.user_password = os.environ["CLASS_PASSWORD"]  # at least 8 characters
c.Authenticator.allow_all = True
c.JupyterHub.active_server_limit = SEATS
c.JupyterHub.concurrent_spawn_limit = 4

c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = str(HOMES / "{username}")
c.Spawner.pre_spawn_hook = hand_out
c.Spawner.cmd = ["prlimit", f"--data={LIMIT}", str(Path(sys.prefix) / "bin" / "jupyterhub-singleuser")]
c.Spawner.args = [
    f"--config={ROOT / 'tools' / 'jupyter' / 'jupyter_lab_config.py'}",
    f"--MappingKernelManager.cull_idle_timeout={IDLE}",
    f"--ServerApp.shutdown_no_activity_timeout={IDLE}",
]
c.Spawner.default_url = "/lab/tree/notebooks/01_kv_cost.ipynb"
c.Spawner.environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # no BLAS thread takes another's core
c.Spawner.start_timeout = 120
