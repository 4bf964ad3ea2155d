"""How a request is refused as a whole."""

import pytest

from headrace.broker.access.refusals import REFUSALS
from headrace.model.errors import ErrorCode
from headrace.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialDeletion
from headrace.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest

DELETION = ScramCredentialDeletion(name="ann", mechanism=1)


@pytest.mark.parametrize(
    "request_",
    [AlterUserScramCredentialsRequest(deletions=(DELETION,), upsertions=()), DescribeUserScramCredentialsRequest(users=())],
)
def test_who_may_not_administer_users_is_told_so_in_words(
    request_: AlterUserScramCredentialsRequest | DescribeUserScramCredentialsRequest,
) -> None:
    reply = REFUSALS[request_.api.key](request_, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    told = [reply] if isinstance(request_, DescribeUserScramCredentialsRequest) else reply.results
    assert [each.error_message for each in told] == ["Cluster authorization failed."]
