"""The report on an application of one's own: how long its answers take, where the time goes, what a load does to it."""
