"""Files inside instances, whose root file systems others prepared: writing below a root that may be
hostile (`root`, also whose the files are), the files written before the first start
(`instance_files`), and tar streams in both directions (`archive`).
"""
