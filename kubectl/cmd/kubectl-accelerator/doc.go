// Command kubectl-accelerator is a kubectl plugin that shows the FPGA cards on all nodes, and cordons them. It runs
// accelerator-device-plugin's commands in the device plugin's and DRA driver's pods, with the user's permissions (see
// package [b-com.com/accelerator-device-plugin/kubectl/fleet]).
//
// Each command has a file of its own. cluster.go connects to the cluster, and output.go prints rows.
package main
