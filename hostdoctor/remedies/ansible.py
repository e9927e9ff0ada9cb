"""The same plan as an Ansible playbook.

Values are written as JSON strings, which are YAML too, so nothing in a file or command can be taken as YAML or as a template.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence

from hostdoctor.remedies.patch import FileChange, Refused
from hostdoctor.remedies.plan import Plan


def playbook(plan: Plan, files: Sequence[FileChange]) -> str:
    """A playbook that changes these files, then runs the plan's commands where something changed.

    As a patch does not apply to another file, it stops on a host whose file is neither the old nor the new one: files of the
    boot configuration name the root file system of their own host. Raises Refused where a file cannot stand in a playbook.
    """
    for change in files:
        _refuse_bytes(change)
    lines = [
        "---",
        f"- name: {_quoted('Kernel command line: ' + ' '.join((*plan.add, *(f'without {each}' for each in plan.remove))))}",
        "  hosts: all",
        "  become: true",
        "  tasks:",
    ]
    for number, change in enumerate(files):
        lines += _guard(change, f"file_{number}")
    for change in files:
        lines += _task(change, bool(plan.commands))
    if plan.commands and not files:
        lines += [line for command in plan.commands for line in _command(command, "    ")]
    if plan.commands and files:
        lines.append("  handlers:")
        lines += [line for command in plan.commands for line in _command(command, "    ", listen=True)]
    return "\n".join(lines) + "\n"


def _refuse_bytes(change: FileChange) -> None:
    """A playbook is text: bytes that are no UTF-8 have no place in it."""
    try:
        f"{change.before or ''}{change.after or ''}".encode()
    except UnicodeEncodeError:
        raise Refused(f"{change.path} holds bytes that are no UTF-8", "Use the patch, which keeps every byte.") from None


def _guard(change: FileChange, name: str) -> Iterator[str]:
    known = [_checksum(text) for text in (change.before, change.after)]
    yield f"    - name: {_quoted(f'Look at {change.path}')}"
    yield "      ansible.builtin.stat:"
    yield f"        path: {_quoted(change.path)}"
    yield "        checksum_algorithm: sha256"
    yield f"      register: {name}"
    yield f"    - name: {_quoted(f'Stop where {change.path} is another file than this was made for')}"
    yield "      ansible.builtin.assert:"
    yield f"        that: {name}.stat.checksum | default('') in {known}"
    yield f"        fail_msg: {_quoted(f'{change.path} is not as it was: make the playbook for this host')}"


def _checksum(text: str | None) -> str:
    """Of a file that is not there it is empty."""
    return "" if text is None else hashlib.sha256(text.encode()).hexdigest()


def _task(change: FileChange, notify: bool) -> Iterator[str]:
    if change.before is None:
        folder = change.path.rpartition("/")[0]
        yield f"    - name: {_quoted(folder)}"
        yield "      ansible.builtin.file:"
        yield f"        path: {_quoted(folder)}"
        yield "        state: directory"
    yield f"    - name: {_quoted(change.path)}"
    if change.after is None:
        yield "      ansible.builtin.file:"
        yield f"        path: {_quoted(change.path)}"
        yield "        state: absent"
    else:
        yield "      ansible.builtin.copy:"
        yield f"        dest: {_quoted(change.path)}"
        yield f"        content: {_quoted(change.after)}"
        if change.before is None:  # else it stays; "preserve" would take that of Ansible's own temporary file
            yield '        mode: "0644"'
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
