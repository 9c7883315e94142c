// Package hook programs the cards of a container before it starts. A container runtime runs
// the hook as createRuntime, with the OCI state on stdin.
//
// A container asks for AFUs with pairs of environment variables, FPGA_REGION_n with the id of an
// interface and FPGA_AFU_n with that of an AFU. The cards that it was given are named by the
// hook's own entries in the container's configuration. Each pair gets one card. The
// assignment is a pure function of the configuration and of the AFUs that the cards have, since
// each card has an entry of its own: the runtime runs them one after the other, and each
// programs the cards that its own --device names.
//
// # Who owns what
//
// The package keeps no state. The card and the lock of its FME are all that outlasts a kill, see
// [fpga.Programmer].
//
// # Trust
//
// The hook runs as root on the host. The environment in config.json is text of the
// pod's author, who chooses ids and nothing else: no path, no card. linux.devices of a
// privileged container has the cards of all tenants, and counts only if no entry names cards.
// The hook starts no process and does not use its environment.
//
// # What may block
//
// [Hook.Run] ends with its context, one second later at most. A read or a request to a driver
// that blocks longer continues in a goroutine that is not awaited, so the process must end
// soon.
package hook
