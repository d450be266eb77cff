"""The dashboards of each experiment: a module or a package an experiment, found by listing this folder.

`dashboards()` returns its dashboards by file name. `published()`, if there is one, returns its published figures as
recording rules: (record, value, labels).
"""
