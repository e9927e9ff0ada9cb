"""The same plan as an Ansible playbook.

Values are written as JSON strings, which are YAML too, so nothing in a file or command can be taken as YAML or as a template.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from hostdoctor.remedies.patch import FileChange
from hostdoctor.remedies.plan import Plan


def playbook(plan: Plan, files: Sequence[FileChange]) -> str:
    """A playbook that changes these files, then runs the plan's commands where something changed."""
    lines = [
        "---",
        f"- name: {_quoted('Kernel command line: ' + ' '.join((*plan.add, *(f'without {each}' for each in plan.remove))))}",
        "  hosts: all",
        "  become: true",
        "  tasks:",
    ]
    for change in files:
        lines += _task(change, bool(plan.commands))
    if plan.commands and not files:
        lines += [line for command in plan.commands for line in _command(command, "    ")]
    if plan.commands and files:
        lines.append("  handlers:")
        lines += [line for command in plan.commands for line in _command(command, "    ", listen=True)]
    return "\n".join(lines) + "\n"


def _task(change: FileChange, notify: bool) -> Iterator[str]:
    yield f"    - name: {_quoted(change.path)}"
    if change.after is None:
        yield "      ansible.builtin.file:"
        yield f"        path: {_quoted(change.path)}"
        yield "        state: absent"
    else:
        yield "      ansible.builtin.copy:"
        yield f"        dest: {_quoted(change.path)}"
        yield f"        content: {_quoted(change.after)}"
        yield '        mode: "preserve"' if change.before is not None else '        mode: "0644"'
        yield f"        backup: {'false' if change.before is None else 'true'}"
    if notify:
        yield "      notify: kernel command line"


def _command(command: str, indent: str, listen: bool = False) -> Iterator[str]:
    """One task; a command that begins with # is a step for people, which stops the play with its words."""
    yield f"{indent}- name: {_quoted(command)}"
    if command.startswith("#"):
        yield f"{indent}  ansible.builtin.pause:"
        yield f"{indent}    prompt: {_quoted(command.lstrip('# '))}"
    else:
        yield f"{indent}  ansible.builtin.shell: {_quoted(command)}"
    if listen:
        yield f"{indent}  listen: kernel command line"


def _quoted(text: str) -> str:
    """A YAML string; what Ansible would take as a template is marked as none."""
    quoted = json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=True)
    return f"!unsafe {quoted}" if "{{" in text or "{%" in text else quoted
