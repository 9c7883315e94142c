// Command kubectl-accelerator is a kubectl plugin that shows the FPGA cards of all nodes, and cordons them. It runs
// accelerator-device-plugin's commands in the pods of the device plugin and the DRA driver, with the user's
// permissions: see package [b-com.com/accelerator-device-plugin/kubectl/fleet].
//
// Each command has a file. cluster.go connects to the cluster, and output.go prints rows.
package main
