"""gpu-access: whether the calling user may use what compute needs."""

from __future__ import annotations

import pytest

from hostdoctor.facts.unknown import ANOTHER_USER, NOT_CAPTURED

ID = "gpu-access"
MIB = 1 << 20


@pytest.fixture
def amd(build):
    """Two AMD GPUs and a user."""
    return lambda access, **more: build.host(build.two_navi_cards(), access=access, **more)


@pytest.fixture
def nvidia(build):
    return lambda access, **more: build.host(build.two_nvidia_gpus(), access=access, **more)


def container(build):
    return build.Environment("bare-metal", container="docker")


def test_root_may_all(build, verdict, amd, nvidia):
    for host in (amd(build.access()), nvidia(build.access())):
        found = verdict(ID, host)
        assert (found.outcome, found.subject) == ("ok", ())
        assert found.title.startswith("root may use")


def test_a_user_who_may_all(build, verdict, amd):
    assert verdict(ID, amd(build.access(1000, (1000, 105)))).outcome == "ok"


@pytest.mark.parametrize("rights", ["NO_RIGHTS", "MAY_READ"])
def test_files_that_may_not_be_opened_are_a_failure_with_the_group_that_helps(build, verdict, amd, text, rights):
    rights = getattr(build, rights)
    found = verdict(ID, amd(build.access(1000, kfd=rights, dri_renderD128=rights)))
    assert (found.outcome, found.subject) == ("failure", ("/dev/kfd", "/dev/dri/renderD128"))
    assert "user 1000 cannot open /dev/kfd and /dev/dri/renderD128" in found.title
    assert "usermod -aG render" in found.next
    assert "/dev/kfd mode 0660, owner 0, group render (105)" in text(found)


def test_in_a_container_it_has_to_be_started_anew(build, verdict, amd):
    found = verdict(ID, amd(build.access(1000, kfd=build.NO_RIGHTS), environment=container(build)))
    assert (found.outcome, found.subject) == ("failure", ("/dev/kfd",))
    assert "--device=/dev/kfd" in found.next


def test_no_group_may(build, verdict, nvidia):
    found = verdict(ID, nvidia(build.access(1000, nvidia0=build.NO_RIGHTS)))
    assert (found.outcome, found.subject) == ("failure", ("/dev/nvidia0",))
    assert "udev rule" in found.next


def test_only_what_the_hosts_gpus_need(build, verdict, amd, nvidia):
    amd_only = build.access(1000, nvidia0=build.NO_RIGHTS, nvidiactl=None)
    assert verdict(ID, amd(amd_only)).outcome == "ok"
    nvidia_only = build.access(1000, kfd=build.NO_RIGHTS, dri_renderD128=None)
    assert verdict(ID, nvidia(nvidia_only)).outcome == "ok"


def test_missing_files_in_a_container_are_a_failure(build, judge, amd, nvidia):
    none = build.access(kfd=None, dri_renderD128=None, nvidia0=None, nvidiactl=None)
    for host, path in ((amd, "/dev/kfd"), (nvidia, "/dev/nvidiactl")):
        (found,) = judge(ID, host(none, environment=container(build)))
        assert (found.outcome, path in found.subject) == ("failure", True)
        assert "container" in found.next


def test_no_kfd_although_the_kernel_has_gpus_in_it_is_a_failure(build, verdict, amd):
    found = verdict(ID, amd(build.access(kfd=None), kfd=build.kfd((build.FIRST, build.SECOND))))
    assert (found.outcome, found.subject) == ("failure", ("/dev/kfd",))


def test_no_kfd_and_nothing_known_of_it_is_unknown(build, verdict, amd):
    assert verdict(ID, amd(build.access(kfd=None), kfd=NOT_CAPTURED)).outcome == "unknown"


def test_files_of_nvidia_that_are_not_made_yet_are_a_fact(build, verdict, nvidia):
    found = verdict(ID, nvidia(build.access(nvidia0=None, nvidiactl=None, nvidia_uvm=None)))
    assert (found.outcome, found.subject) == ("info", ("/dev/nvidiactl", "/dev/nvidia0"))
    assert verdict(ID, nvidia(build.access(nvidia_uvm=None))).outcome == "ok"


@pytest.mark.parametrize(
    ("user", "limit", "outcome"),
    [
        (1000, 64 << 10, "warning"),
        (1000, 8 * MIB, "warning"),
        (1000, 64 * MIB, "warning"),
        (1000, 65 * MIB, "ok"),
        (1000, None, "ok"),
        (1000, NOT_CAPTURED, "ok"),
        (0, 8 * MIB, "ok"),
    ],
)
def test_memlock_matters_with_rdma(build, amd, user, limit, outcome):
    found = build.verdict(ID, amd(build.access(user, (105,), limit), network=build.network(mlx5_0="0000:51:00.0")))
    assert found.outcome == outcome
    if outcome == "warning":
        assert found.subject == ("RLIMIT_MEMLOCK",)
        assert "mlx5_0" in found.evidence[1].value


@pytest.mark.parametrize("network", [(), NOT_CAPTURED])
def test_memlock_does_not_matter_without_rdma(build, verdict, amd, network):
    assert verdict(ID, amd(build.access(1000, memlock=64 << 10), network=network)).outcome == "ok"


def test_another_hosts_user_is_not_here(build, verdict, amd):
    found = verdict(ID, amd(ANOTHER_USER))
    assert (found.outcome, ANOTHER_USER.reason in found.title) == ("not-applicable", True)


def test_missing_facts_are_unknown(build, verdict, amd):
    assert verdict(ID, amd(NOT_CAPTURED)).outcome == "unknown"
    driver = build.host(build.two_navi_cards(driver=NOT_CAPTURED))
    assert verdict(ID, driver).outcome == "unknown"


@pytest.mark.parametrize("driver", [None, "vfio-pci", "nouveau"])
def test_not_judged_without_a_driver_that_computes(build, verdict, driver):
    assert verdict(ID, build.host(build.two_nvidia_gpus(driver=driver))).outcome == "not-applicable"


def test_not_judged_without_a_gpu_nor_in_a_guest(build, verdict):
    assert verdict(ID, build.host()).outcome == "not-applicable"
    guest = build.host(build.gpu("0000:41:00.0", build.V620), environment=build.GUEST)
    assert verdict(ID, guest).outcome == "not-applicable"
