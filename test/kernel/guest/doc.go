// Command guest is /init of the machine that the command host boots. It sets up the machine,
// runs every story of /stories and sends the exit status to the host: 0 if all stories passed.
//
// A rig is the state of one story. It contains the stand-in for the kubelet and the lists that this has received, the
// daemon's process and log, and the commands that the story runs: accelerator-fpga, or a container with runc. The state
// of the whole boot is in machine: the connection to the host, the uevents with their times, and the opens of device
// nodes.
//
// "init launch SANDBOX COMMAND…" starts the daemon in a sandbox: it drops privileges, and executes the command. "init
// container" is a container's process. "init peer" is the process that costs exchanges messages with.
package main
