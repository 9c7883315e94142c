package privatedir

// CheckType is CheckLocal for a file system with this number in statfs(2).
func CheckType(path string, number int64) error { return checkType(path, number) }
