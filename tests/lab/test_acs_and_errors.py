"""ACS redirect and error counters, as a real kernel sets and counts them."""

from __future__ import annotations

import pytest

from tests.lab.scenarios import BELOW, GPU, PORTS

REDIRECT = 0x0C  # request and completion


def control(guest, port):
    """The ACS control register, from config space as the kernel gives it."""
    config = bytes.fromhex(guest.functions[port]["config"])
    at = 0x100
    while int.from_bytes(config[at : at + 2], "little") != 0x0D:
        at = int.from_bytes(config[at + 2 : at + 4], "little") >> 4
    return int.from_bytes(config[at + 6 : at + 8], "little")


def groups(guest):
    """The group of each port and of the GPU below it."""
    return [tuple(guest.functions[address]["iommu_group"] for address in pair) for pair in zip(PORTS, BELOW, strict=True)]


@pytest.mark.lab("acs")
def test_the_kernel_redirects_below_a_switch_and_it_is_found(guest):
    assert all(control(guest, port) & REDIRECT == REDIRECT for port in PORTS)
    assert all(port != gpu for port, gpu in groups(guest))
    (found,) = guest.findings("acs-redirect")
    assert (found["outcome"], found["subject"]) == ("warning", list(PORTS))
    assert f"pci=disable_acs_redir={';'.join(PORTS)}" in found["next"]


@pytest.mark.lab("acs-cleared")
def test_the_remedy_clears_it_and_groups_merge(guest):
    assert all(not control(guest, port) & REDIRECT for port in PORTS)
    assert all(port == gpu for port, gpu in groups(guest))
    assert [finding["outcome"] for finding in guest.findings("acs-redirect")] == ["ok"]


@pytest.mark.lab("acs-configured")
def test_the_newer_option_clears_it_too(guest):
    assert all(not control(guest, port) & REDIRECT for port in PORTS)
    assert [finding["outcome"] for finding in guest.findings("acs-redirect")] == ["ok"]
    assert [finding["outcome"] for finding in guest.findings("kernel-parameters")] == ["ok"]


@pytest.mark.lab("acs")
def test_where_guests_use_devices_it_is_no_fault(guest):
    (found,) = guest.findings("acs-redirect", "vfio")
    assert found["outcome"] == "info"


@pytest.mark.lab("acs")
def test_an_ordinary_user_is_told_what_root_would_see(guest):
    (found,) = guest.findings("acs-redirect", "user")
    assert found["outcome"] == "unknown"
    assert "sudo" in found["help"]


@pytest.mark.lab("errors")
def test_injected_errors_are_counted(guest):
    def counts(state, address, counter):
        lines = guest.json(state)["functions"][address][counter].splitlines()
        return {name: int(number) for name, number in (line.split() for line in lines) if number != "0"}

    assert counts("before", GPU, "aer_dev_correctable") == {}
    assert counts("correctable", GPU, "aer_dev_correctable") == {"BadTLP": 3, "TOTAL_ERR_COR": 3}
    assert counts("nonfatal", "0000:02:00.0", "aer_dev_nonfatal") == {"CmpltTO": 1, "TOTAL_ERR_NONFATAL": 1}


@pytest.mark.lab("errors")
def test_counted_errors_are_judged_by_their_kind(guest):
    def found(report):
        return {
            finding["subject"][0]: finding["outcome"] for finding in guest.findings("link-errors", report) if finding["subject"]
        }

    assert found("root") == {}
    assert found("correctable-root") == {GPU: "info"}
    assert found("nonfatal-root") == {GPU: "info", "0000:02:00.0": "failure"}


@pytest.mark.lab("errors")
def test_a_link_that_flaps_is_seen_by_watching(guest):
    found = {finding["subject"][0]: finding["outcome"] for finding in guest.findings("link-stability", "watched")}
    assert found == {GPU: "failure", "0000:02:00.0": "ok"}
    (errors,) = (finding for finding in guest.findings("link-errors", "watched") if GPU in finding["subject"])
    assert errors["outcome"] in ("warning", "failure")
