// A package with a function that has its body elsewhere (newManagerImpl) must have
// a file in assembly.
