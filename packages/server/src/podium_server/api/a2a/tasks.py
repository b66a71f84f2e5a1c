"""The tasks of the agents: in memory, the newest ones, and each visible to its own caller only."""

from collections import OrderedDict
from collections.abc import Sequence

from a2a.server.context import ServerCallContext
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import ListTasksRequest, Task, TaskState

_MOST_TASKS = 1000


class RecentTasks(InMemoryTaskStore):
    """Stores the newest tasks of one agent until the server stops.

    The store of the SDK shows tasks to their owners only: to the user of the call, which is the caller here.
    """

    def __init__(self) -> None:
        super().__init__()
        self._places: OrderedDict[str, ServerCallContext] = OrderedDict()

    async def save(self, task: Task, context: ServerCallContext) -> None:
        """Store a task; delete the oldest one if there are too many."""
        await super().save(task, context)
        self._places[task.id] = context
        while len(self._places) > _MOST_TASKS:
            oldest, place = self._places.popitem(last=False)
            await super().delete(oldest, place)

    async def before(self, task_id: str, context_id: str, context: ServerCallContext) -> Sequence[Task]:
        """Return the completed tasks of a conversation before a task, oldest first."""
        completed = ListTasksRequest(context_id=context_id, status=TaskState.TASK_STATE_COMPLETED)
        found = await self.list(completed, context)
        return [task for task in reversed(found.tasks) if task.id != task_id]
