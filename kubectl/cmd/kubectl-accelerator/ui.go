package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/kubectl/fleet"
	"b-com.com/accelerator-device-plugin/kubectl/ui"
)

func newUI(c *cluster) *cobra.Command {
	return &cobra.Command{
		Use:   "ui [NODE...]",
		Short: "Show all nodes' cards on a page in your browser",
		Long: `Show the cards of all nodes, or of each NODE, on a page in your browser: which of them
need attention, why, what to do about it, which pods use them, and what has happened to
them. The page is updated until you end the command with Ctrl-C.

The command prints the page's address, which can be reached only from this machine. The
address contains a secret. Anyone who knows it and can run programs on this machine can
read the page, but it can't be used to change anything.`,
		Example: `  kubectl accelerator ui
  kubectl accelerator ui worker-3 worker-4`,
		ValidArgsFunction: c.nodes(0),
		RunE: func(cmd *cobra.Command, nodes []string) error {
			for _, node := range nodes {
				if err := checkNode(node); err != nil {
					return err
				}
			}
			f, err := c.fleet(cmd)
			if err != nil {
				return err
			}
			f.History = true
			targets, err := f.Targets(cmd.Context(), nodes...)
			if err != nil { // fail before printing the page's address
				return failure{err}
			}
			without := slices.DeleteFunc(targets, func(t fleet.Target) bool { return t.Pod != "" })
			for _, t := range without {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s: %s\n", program, terminal.Escape(t.Node), t.Problem)
			}
			if n := len(without); n > 0 && n == len(nodes) {
				return failure{errors.New("want the name of a node with the plugin")}
			}
			listener, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				return failure{err}
			}
			board, token := ui.NewBoard(c.name()), rand.Text()
			board.Kubectl = beginnings(cmd)
			fmt.Fprintf(cmd.OutOrStdout(), "Open http://%s/%s/ in a browser on this machine. Ctrl-C ends it.\n", listener.Addr(), token)
			group, ctx := errgroup.WithContext(cmd.Context())
			group.Go(func() error { return ui.Serve(ctx, listener, board, token) })
			group.Go(func() error {
				board.Follow(ctx, func(ctx context.Context, report func(fleet.Change)) error { return f.Follow(ctx, nodes, report) })
				return nil
			})
			return asFailure(group.Wait())
		},
	}
}

// name returns the kubeconfig context's name, which also serves as the cluster's name.
func (c *cluster) name() string {
	raw, _ := c.kube.ToRawKubeConfigLoader().RawConfig() // fleet returns the same error
	return cmp.Or(*c.kube.Context, raw.CurrentContext)
}

// beginnings returns how the commands that the page offers for copying begin: first for kubectl, then for kubectl
// accelerator. They include this command's flags that select the cluster and the user, because otherwise a copied
// command would run against a different cluster.
func beginnings(cmd *cobra.Command) [2]string {
	kube := []string{"kubeconfig", "context", "cluster", "user", "as", "as-group"}
	return [2]string{"kubectl" + shellFlags(cmd, kube...), program + shellFlags(cmd, append(kube, "namespace", "selector")...)}
}

// shellFlags returns the named flags as shell words, leaving out flags that weren't set.
func shellFlags(cmd *cobra.Command, names ...string) string {
	var out strings.Builder
	for _, name := range names {
		flag := cmd.Flag(name)
		if !flag.Changed {
			continue
		}
		values := []string{flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			if !plain.MatchString(value) {
				value = "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
			}
			fmt.Fprintf(&out, " --%s %s", name, value)
		}
	}
	return out.String()
}

// plain matches text that doesn't need quotes in a shell.
var plain = regexp.MustCompile(`^[\w@%+:,./-]+$`)
