"""What Voila needs to serve the notebooks as apps: voila notebooks --Voila.config_file_paths=deploy"""

c = get_config()  # noqa: F821  (given by Voila)
c.Voila.tornado_settings = {
    # Voila's page asks another server for an icon font. Nothing here shows it, and where that server cannot be
    # reached the page may wait for it; so the browser is told to take style sheets from this server only.
    "headers": {"Content-Security-Policy": "style-src 'self' 'unsafe-inline'; frame-ancestors 'self'"},
    # A page that is closed asks for the end of its kernel, but Voila (0.5.13) has not given it the cookie for that
    # check, so kernels would stay. The request needs the kernel's random id, which no other site knows.
    "disable_check_xsrf": True,
}
# The Python that runs Voila is the one that has labkit.
c.KernelSpecManager.kernel_dirs = []
# The kernel of a laptop that lost the connection ends after half an hour.
c.MappingKernelManager.cull_idle_timeout = 1800  # seconds
c.MappingKernelManager.cull_interval = 120  # seconds
