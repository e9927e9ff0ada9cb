"""Where bytes come from: this host, or a folder that holds another host's /sys, /proc, /etc and /boot.

Nothing else in the program touches the machine, and nothing else can tell which of them it runs on.
"""

from hostdoctor.evidence.protocol import Directory, Evidence, Opened, Unreadable

__all__ = ["Directory", "Evidence", "Opened", "Unreadable"]
