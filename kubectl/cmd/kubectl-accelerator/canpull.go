package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"b-com.com/accelerator-device-plugin/internal/terminal"
)

var pciAddress = regexp.MustCompile(`^([0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$`)

func newCanPull(c *cluster) *cobra.Command {
	var format string
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "can-pull NODE CARD",
		Short: "Check whether it is safe to pull a card out of a node",
		Long: `Check whether it is safe to pull a card. The command prints yes, no or unknown, and one
line for each reason, with a remedy. The exit code is 0 for yes, and 1 otherwise.

Only a pod that can see all of the node's processes can answer this, so the command
starts one in the plugin's namespace and removes it afterwards. The pod is privileged
and uses the plugin's image and settings. If the command is killed, the pod ends on its
own.`,
		Example: `  kubectl accelerator can-pull worker-3 3b:00.0
  kubectl accelerator can-pull worker-3 3b:00.0 && echo pull`,
		ValidArgsFunction: c.nodeAndCards(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("found %d arguments, want NODE and CARD, such as worker-3 3b:00.0", len(args))
			}
			if err := checkNode(args[0]); err != nil {
				return err
			}
			if !pciAddress.MatchString(args[1]) {
				return fmt.Errorf("CARD: found %q, want the PCI address of a card, such as 3b:00.0 or 0001:3b:00.0", args[1])
			}
			if format != "" && format != "json" {
				return fmt.Errorf("--output: found %q, want json", format)
			}
			if limit < time.Second {
				return fmt.Errorf("--timeout: found %s, want a duration of at least 1s", limit)
			}
			f, err := c.fleet(cmd)
			if err != nil {
				return err
			}
			f.Limit = limit
			tell, done := line(cmd.ErrOrStderr())
			a, err := f.CanPull(cmd.Context(), args[0], args[1], tell)
			done()
			if a.Answer == "" {
				return asFailure(err)
			}
			if format == "json" {
				err = errors.Join(err, terminal.WriteJSON(cmd.OutOrStdout(), a))
			} else {
				text, begin := a.Answer+"\n", beginnings(cmd)
				here := strings.NewReplacer("accelerator-device-plugin cordon ", begin[1]+" cordon "+args[0]+" ", "kubectl ", begin[0]+" ")
				for _, r := range a.Reasons {
					text += r.What
					if r.Do != "" {
						text += ": " + here.Replace(r.Do)
					}
					text += "\n"
				}
				_, writeErr := io.WriteString(cmd.OutOrStdout(), text)
				err = errors.Join(err, writeErr)
			}
			if err == nil && a.Answer != "yes" {
				err = errPrinted
			}
			return asFailure(err)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "", "output `format`: json (default: text)")
	completeOutput(cmd, "json")
	cmd.Flags().DurationVar(&limit, "timeout", 2*time.Minute, "how long to wait for an answer")
	return cmd
}

// errPrinted makes the program exit with code 1 without printing a message, because the output already says why.
var errPrinted = errors.New("")

func checkNode(name string) error {
	if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
		return fmt.Errorf("NODE: found %q, want the name of a node", name)
	}
	return nil
}

// line returns two functions for a status line on a terminal: tell replaces its text, and done clears it.
func line(w io.Writer) (tell func(string), done func()) {
	if !terminal.Is(w) {
		return func(string) {}, func() {}
	}
	const clear = "\r\x1b[K"
	return func(text string) { fmt.Fprint(w, clear+terminal.Escape(text)) }, func() { fmt.Fprint(w, clear) }
}
