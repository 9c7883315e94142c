// Command guest is /init in the machine that the host command boots. It sets up the machine, runs every story in
// /stories, and sends the exit status to the host: 0 if all stories passed.
//
// A rig is the state of a story. It contains the kubelet's stand-in and the lists that it has received, the daemon's
// process and log, and the commands that the story runs: accelerator-fpga, or a container with runc. A machine is the
// state since boot: the connection to the host, the timed uevents, and the opens of device nodes.
//
// "init launch SANDBOX COMMAND…" starts the daemon in a sandbox: it drops privileges and executes the command. "init
// container" runs inside a container. "init peer" is the process that the costs verb exchanges messages with.
package main
