"""Commands that run and operate a Vetro: its processes, its files, and who may use it.

`up` starts all parts or one, `node` and `broker` too; `install` and `openstack` set a machine up,
`doctor` says what is wrong with it. `backup`, `blobs`, `database` and `key` work on the files of this
machine; `project`, `quota` and `token` talk to the running service.
"""
