"""Files inside instances, whose root file systems others prepared: writing below a root that may be
hostile (`root`), the files written before the first start (`instance_files`), tar streams in both
directions (`archive`), and whose the files are (`owners`).
"""
