package sysfs

// Bound reports whether a driver is bound to the device at dir: it has a link to its driver. Bound returns no other
// errors than those of [IsShortage].
func Bound(dir string) (bool, error) { return exists(dir + "/driver") }

// exists reports whether there is a file at path. It returns no other errors than those of
// [IsShortage].
func exists(path string) (bool, error) {
	_, err := lstat(path)
	return err == nil, onlyShortage(err)
}

// onlyShortage returns err if it is a shortage, else nil. Callers use it where any other error
// means that the file does not exist or is not usable.
func onlyShortage(err error) error {
	if IsShortage(err) {
		return err
	}
	return nil
}
