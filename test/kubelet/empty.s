// A Go package that declares a function without body (newManagerImpl, by go:linkname) must
// have an assembly file.
