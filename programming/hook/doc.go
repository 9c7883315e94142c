// Package hook programs the cards of a container before it starts. A container runtime runs
// the hook as createRuntime, with the OCI state on stdin.
//
// A container requests AFUs with pairs of environment variables: FPGA_REGION_n has the id of an
// interface, FPGA_AFU_n the id of an AFU. The hook's entries in the container's configuration have
// the cards of the container, one entry for each card, and each pair gets one card. The runtime runs
// the entries one after the other, and each invocation programs only the card of its own --device.
// So the assignment of cards to pairs must be the same in all invocations: it is a pure function of
// the configuration and of the AFUs that the cards have.
//
// # State
//
// The package keeps no state. After a kill only the state of the card and the lock of its FME
// remain, see [fpga.Programmer].
//
// # Trust
//
// The hook runs as root on the host. The environment in config.json comes from the pod's author,
// who can choose only ids, and neither a path nor a card. With an AFU in the flags the environment is not used. linux.devices of a privileged container
// has the cards of all tenants, and is used only if no entry has cards. The hook starts no process
// and does not use its own environment.
//
// # What may block
//
// [Hook.Run] ends with its context, one second later at most. A read or a request to a driver
// that blocks longer continues in a goroutine that is not awaited, so the process must end
// soon.
package hook
