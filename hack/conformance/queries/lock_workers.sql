-- As creating a trigger does, but before the rows are changed.
LOCK TABLE pgflow.workers IN SHARE ROW EXCLUSIVE MODE
