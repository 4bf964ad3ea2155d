"""Where the records of a topic are that begins with those of one that was lost: a folder of the object store."""

from typing import ClassVar

from headrace.declaring import dataclass
from headrace.model.settings import SettingError


@dataclass(frozen=True, slots=True)
class LostTopic:
    """`CLUSTER/TOPIC:EPOCH`, the folder and the first epoch that none of its records was written in; empty for none."""

    SETTING: ClassVar[str] = "headrace.remote.from"

    folder: str = ""
    next_epoch: int = 0

    @classmethod
    def parse(cls, text: str) -> "LostTopic":
        if not text:
            return cls()
        folder, _, epoch = text.rpartition(":")
        if folder.count("/") != 1 or not epoch.isdecimal() or int(epoch) >= 2**30:
            raise SettingError(f"{cls.SETTING}={text} is not of the form CLUSTER/TOPIC:EPOCH; `headrace recover` sets it")
        return cls(folder, int(epoch))

    def __str__(self) -> str:
        return f"{self.folder}:{self.next_epoch}" if self.folder else ""
