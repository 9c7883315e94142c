// Package hook programs a container's cards before the container starts. A container runtime runs it as a createRuntime
// hook, with the OCI state on stdin.
//
// A container requests AFUs with pairs of environment variables: FPGA_REGION_n is an interface id, and FPGA_AFU_n is an
// AFU id. The hook's entries in the container's configuration list the container's cards, one entry per card, and each
// pair gets one card. The runtime runs the entries one by one, and each invocation programs only the card given by its
// own --device. So all invocations must assign the cards to the pairs in the same way. For this reason, the assignment
// is a pure function of the configuration and the cards' AFUs.
//
// # State
//
// The package keeps no state. If the hook is killed, all that remains is the card's state and its FME's lock; see
// [fpga.Programmer].
//
// # Trust
//
// The hook runs as root on the host. The environment in config.json comes from the pod's author, who can choose ids but
// not paths or cards. If the flags contain an AFU, this environment isn't used. A privileged container's linux.devices
// contains all tenants' cards, so it is used only if no entry lists cards. The hook doesn't start any processes and
// doesn't use its own environment.
//
// # What may block
//
// [Hook.Run] returns when its context is done, or at most one second later. A read or driver request that blocks for
// longer continues in a goroutine that nothing waits for, so the process must exit soon.
package hook
