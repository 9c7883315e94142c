// Command guest is /init of the machine that host boots. It makes the machine ready,
// runs every story of /stories and hands its verdict to the host: 0 when all went
// as they should.
//
// A rig is the state of one story: the stand-in for the kubelet, the daemon's
// process, what both said, and the commands that a story runs: accelerator-fpga, or a
// container by runc. What the whole boot shares is in machine: the line to
// the host, the uevents with their times, and who opened a device node.
//
// Called as "init launch SANDBOX COMMAND…", it is the last step before the daemon:
// it takes away what the sandbox lacks, and becomes the command. Called as "init
// container", it is the process of a container.
package main
