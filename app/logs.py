"""One format for the lines that processes log: time, level, process, message."""

import logging

FORMAT = "%(asctime)s %(levelname)-7s %(process_name)s  %(message)s"


def configure_logs(process_name: str) -> None:
    """Log to standard error, from INFO for our own modules and from WARNING for those of others."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(FORMAT, defaults={"process_name": process_name}))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in ("app", "isoscope", "workers"):
        logging.getLogger(name).setLevel(logging.INFO)
