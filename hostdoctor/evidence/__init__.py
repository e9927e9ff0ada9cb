"""Where bytes come from: this host, or a folder that holds another host's /sys, /proc, /etc and /boot.

Nothing else in the program reads the machine's files, and nothing else can tell which of them it runs on. What is no file is
asked elsewhere, on this host only: the user's rights and uevents by readers, vendors' libraries by hostdoctor.vendor.
"""

from hostdoctor.evidence.protocol import Directory, Evidence, Opened, Unreadable

__all__ = ["Directory", "Evidence", "Opened", "Unreadable"]
