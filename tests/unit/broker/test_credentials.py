"""What is kept of passwords: a name that there is not costs as much work as one that there is, and looks like it."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.sign_in import credentials
from headrace.broker.sign_in.credentials import Credentials
from headrace.model.access.scram import ScramCredential, ScramMechanism, password_matches

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512


def kept(mechanism: ScramMechanism, iterations: int) -> ScramCredential:
    size = mechanism.key_bytes
    return ScramCredential(salt=b"0123456789abcdef", iterations=iterations, stored_key=b"s" * size, server_key=b"k" * size)


@pytest.mark.slow
@pytest.mark.parametrize(
    "users",
    [
        {("ann", SHA_256): 4096},
        {("ann", SHA_512): 8192},
        {("ann", SHA_256): 4096, ("ann", SHA_512): 8192},
        {("ann", SHA_256): 5000, ("bob", SHA_512): 4096},
    ],
    ids=str,
)
def test_a_name_that_there_is_not_costs_work_as_some_user_does(
    monkeypatch: pytest.MonkeyPatch, users: dict[tuple[str, ScramMechanism], int]
) -> None:
    """Counted in what is computed: the time itself says little on a machine that does other things as well."""
    image: Any = SimpleNamespace(
        scram_seed=b"seed", scram_credentials={key: kept(key[1], iterations) for key, iterations in users.items()}
    )
    work: Counter[tuple[ScramMechanism, int]] = Counter()

    def counted(mechanism: ScramMechanism, credential: ScramCredential, password: str) -> bool:
        work[mechanism, credential.iterations] += 1
        return password_matches(mechanism, credential, password)

    monkeypatch.setattr(credentials, "password_matches", counted)
    checks = Credentials(lambda: image)
    for name in {name for name, _ in users}:
        assert not checks._is_valid(name, "wrong")
    of_users = set(work)
    work.clear()
    for number in range(20):
        assert not checks._is_valid(f"nobody-{number}", "wrong")

    assert set(work) == of_users
