// Package hook programs a container's cards before the container starts. Container runtimes run it as a createRuntime
// hook, with the OCI state on stdin.
//
// A container requests AFUs with pairs of environment variables: FPGA_REGION_n is an interface ID and FPGA_AFU_n is an
// AFU ID. The container's configuration has one hook entry for each of the container's cards, and each pair gets one
// card. The runtime runs the entries one after the other, and each invocation programs only the card in its own
// --device. So all invocations have to assign cards to pairs in the same way, which is why the assignment is a pure
// function of the configuration and the cards' AFUs.
//
// # State
//
// The package keeps no state. If the hook is killed, all that it leaves behind is the state of the card and the lock of
// the card's FME; see [fpga.Programmer].
//
// # Trust
//
// The hook runs as root on the host. The environment in config.json comes from the pod's author, who can choose IDs but
// not paths or cards. The environment is ignored if the flags include an AFU. In a privileged container, linux.devices
// lists every tenant's cards, so it is used only if none of the entries lists cards. The hook doesn't start any
// processes, and ignores its own environment.
//
// # What may block
//
// [Hook.Run] returns no later than one second after its context is done. A read or driver request that blocks for
// longer continues in an abandoned goroutine, so the process must exit soon afterwards.
package hook
