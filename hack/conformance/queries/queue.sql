-- Locks on a table are given in the order in which they were asked for; a row's are not, where the next one is quick.
LOCK TABLE pgflow.worker_functions IN EXCLUSIVE MODE
