// Command kubectl-accelerator is a plugin for kubectl: it shows the FPGA cards of all nodes, and cordons them. It runs
// the commands of accelerator-device-plugin in the pods of the device plugin and of the DRA driver, with the
// permissions of the user: see package [b-com.com/accelerator-device-plugin/kubectl/fleet].
//
// There is one file for each command. cluster.go connects to the cluster, and output.go prints rows.
package main
