"""hostdoctor: why the GPUs of a Linux host do not talk to each other as fast as they could, and the cure."""

__version__ = "0.1.0"
