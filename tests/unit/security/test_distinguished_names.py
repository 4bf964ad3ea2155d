"""Names of certificates as text.  `names_printed_by_java.jsonl` holds what Java's X500Principal prints of names in DER."""

import contextlib
import datetime
import json
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from headrace.security.authentication.distinguished_names import printed, subject_of

SAMPLES = [json.loads(line) for line in (Path(__file__).parent / "names_printed_by_java.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(("der", "text"), SAMPLES, ids=[text for _, text in SAMPLES])
def test_a_name_is_printed_as_java_prints_it(der: str, text: str) -> None:
    assert printed(bytes.fromhex(der)) == text


def test_the_subject_of_a_certificate_is_read_from_its_bytes() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Acme"), x509.NameAttribute(NameOID.COMMON_NAME, "ann")])
    when = datetime.datetime(2026, 1, 1)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, when, when + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.DER)
    )

    assert subject_of(certificate) == "CN=ann,O=Acme"


@pytest.mark.parametrize("length", range(len(bytes.fromhex(SAMPLES[0][0]))))
def test_a_name_that_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises(ValueError):
        printed(bytes.fromhex(SAMPLES[0][0])[:length])


@given(st.binary(max_size=60))
def test_bytes_are_a_name_or_refused(data: bytes) -> None:
    for reads in (printed, subject_of):
        with contextlib.suppress(ValueError):
            assert isinstance(reads(data), str)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4), min_size=1, max_size=3))
def test_two_names_are_never_printed_alike(values: list[str]) -> None:
    """One value that reads like several parts, and the several parts."""

    def text(*parts: str) -> str:
        return printed(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, part) for part in parts]).public_bytes())

    joined = ",CN=".join(reversed(values))

    assert (text(*values) == text(joined)) == (len(values) == 1)
