"""What the stand-in tools have in common: a scene says which GPUs there are, how fast they copy, and what goes wrong.

A scene is a JSON file named by STANDIN_SCENE:

    gpus        [["0000:03:00.0", "AMD Radeon PRO V620"], ...]
    gbs         {"0000:03:00.0 0000:07:00.0": 6.6}, "host" for host memory; "usual" of all others, 6.8
    staged_gbs  the same without peer access; 3.1 where nothing is said
    wrong       pairs whose data arrive wrong, "0000:03:00.0 0000:07:00.0"
    bare_node   whether the host has a second node, which has no memory
    no_access   pairs that are granted none
    calls       a file to which each call is added, a line each
    park        a part of the arguments: such a call opens the fifo, and holds it open until it is ended
    fifo        that fifo
    family      whether a parked call has a child that holds the fifo too
    die         a part of the arguments: such a call is ended by a signal
    kmsg        [part of the arguments, file, text]: such a call adds a line to that file, as the kernel to its log
    say         text to be printed instead of anything else, and `status` to end with
"""

import os
import sys
import time

# JSON's words in Python: a tool is started hundreds of times, and importing json takes longer than all that it does.
WORDS = {"true": True, "false": False, "null": None, "__builtins__": {}}


class Scene:
    def __init__(self):
        with open(os.environ["STANDIN_SCENE"]) as file:
            self.said = eval(file.read(), WORDS)
        self.arguments = sys.argv[1:]
        self.gpus = [address for address, _ in self.said.get("gpus", [])]
        self.names = dict(self.said.get("gpus", []))
        self._act(" ".join(self.arguments))

    def _act(self, call):
        if path := self.said.get("calls"):
            with open(path, "a") as file:
                visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
                file.write(f"{os.path.basename(sys.argv[0])} {call} {visible}".rstrip() + "\n")
        kmsg = self.said.get("kmsg")
        if kmsg and kmsg[0] in call:
            with open(kmsg[1], "a") as file:
                file.write(kmsg[2] + "\n")
        if "die" in self.said and self.said["die"] in call:
            os.abort()
        if "park" in self.said and self.said["park"] in call:
            self._park()
        if "say" in self.said:
            sys.stdout.write(self.said["say"] + "\n")
            sys.stdout.flush()
            sys.exit(self.said.get("status", 0))

    def _park(self):
        fifo = os.open(self.said["fifo"], os.O_WRONLY)
        if self.said.get("family"):
            os.fork()
        os.write(fifo, b"here\n")
        while True:
            time.sleep(3600)

    def gbs(self, origin, target, staged=False):
        usual = 3.1 if staged else self.said.get("usual", 6.8)
        return self.said.get("staged_gbs" if staged else "gbs", {}).get(f"{origin} {target}", usual)

    def is_wrong(self, origin, target):
        return f"{origin} {target}" in self.said.get("wrong", [])

    def has_access(self, origin, target):
        return f"{origin} {target}" not in self.said.get("no_access", [])
