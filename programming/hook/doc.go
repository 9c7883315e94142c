// Package hook programs the cards of a container before it starts. A container runtime runs
// the hook as createRuntime, with the OCI state on stdin.
//
// A container requests AFUs with pairs of environment variables: FPGA_REGION_n is the id of an interface, FPGA_AFU_n is
// the id of an AFU. The hook's entries in the container's configuration list the cards of the container, one entry for
// each card, and each pair gets one card. The runtime runs the entries in turn, and each invocation programs only the
// card of its own --device. So the assignment of cards to pairs must be the same in all invocations: it is a pure
// function of the configuration and of the AFUs that the cards have.
//
// # State
//
// The package keeps no state. If the hook is killed, only the state of the card and the lock of its FME remain, see
// [fpga.Programmer].
//
// # Trust
//
// The hook runs as root on the host. The environment in config.json comes from the pod's author, who can choose only
// ids, not paths or cards. If the flags contain an AFU, this environment is not used. linux.devices of a privileged
// container contains the cards of all tenants, and is used only if no entry lists cards. The hook starts no process and
// does not use its own environment.
//
// # What may block
//
// [Hook.Run] ends with its context, or at most one second later. A read or a request to a driver that blocks longer
// continues in a goroutine that nobody waits for, so the process must end soon.
package hook
