package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/kubectl/fleet"
	"b-com.com/accelerator-device-plugin/kubectl/rows"
)

// cluster holds the flags that determine where commands look for the plugin.
type cluster struct {
	kube     *genericclioptions.ConfigFlags // kubectl's flags
	selector string
	timeout  time.Duration
}

func newCluster() *cluster {
	c := &cluster{kube: genericclioptions.NewConfigFlags(true)}
	c.kube.CacheDir = nil // don't cache anything
	return c
}

func (c *cluster) addFlags(flags *pflag.FlagSet) {
	c.kube.AddFlags(flags)
	flags.Lookup("namespace").Usage = "the namespace of the plugin's pods (default: all namespaces)"
	flags.StringVarP(&c.selector, "selector", "l", fleet.Selector, "label selector for the plugin's pods, needed if nameOverride is set in the chart")
	flags.DurationVar(&c.timeout, "node-timeout", 10*time.Second, "how long to wait for a node's answer")
}

// fleet returns a client for the cluster's nodes.
func (c *cluster) fleet(cmd *cobra.Command) (*fleet.Fleet, error) {
	if c.timeout <= 0 {
		return nil, fmt.Errorf("--node-timeout: found %s, want a duration such as 10s", c.timeout)
	}
	config, err := c.kube.ToRESTConfig()
	if err != nil {
		return nil, failure{err}
	}
	raw, _ := c.kube.ToRawKubeConfigLoader().RawConfig() // ToRESTConfig would have returned the same error
	if config.Host == "http://localhost:8080" && raw.CurrentContext+*c.kube.Context+*c.kube.ClusterName+*c.kube.APIServer == "" {
		return nil, failure{errors.New("found no kubeconfig with a current context, want one in ~/.kube/config, in $KUBECONFIG, or with --kubeconfig")}
	}
	f, err := fleet.New(config, *c.kube.Namespace, c.selector)
	if err != nil {
		return nil, failure{err}
	}
	f.Limit = c.timeout
	f.Progress = progress(cmd.ErrOrStderr())
	return f, nil
}

// ask queries the given nodes, or all nodes if none are given. If history is true, the answers include the cards'
// history.
func (c *cluster) ask(cmd *cobra.Command, nodes []string, history bool) ([]fleet.Answer, error) {
	for _, node := range nodes {
		if err := checkNode(node); err != nil {
			return nil, err
		}
	}
	f, err := c.fleet(cmd)
	if err != nil {
		return nil, err
	}
	f.History = history
	targets, err := f.Targets(cmd.Context(), nodes...)
	if err != nil {
		return nil, failure{err}
	}
	answers := f.Ask(cmd.Context(), targets)
	if cmd.Context().Err() != nil {
		return nil, failure{errors.New("interrupted")}
	}
	return answers, nil
}

// taintRules returns the cluster's DeviceTaintRules, or nil if none of the nodes uses DRA.
func (c *cluster) taintRules(cmd *cobra.Command, answers []fleet.Answer) ([]resourceapi.DeviceTaintRule, error) {
	if !slices.ContainsFunc(answers, func(a fleet.Answer) bool { return a.State.API == "dra" }) {
		return nil, nil
	}
	f, err := c.fleet(cmd)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), c.timeout)
	defer cancel()
	return f.TaintRules(ctx)
}

// progress returns a function that shows how many nodes have answered, or nil if w isn't a terminal.
func progress(w io.Writer) func(done, total int) {
	if !terminal.Is(w) {
		return nil
	}
	return func(done, total int) {
		const clear = "\r\x1b[K"
		if done == total {
			fmt.Fprint(w, clear)
		} else {
			fmt.Fprintf(w, "%s%d of %d nodes have answered", clear, done, total)
		}
	}
}

// finish prints notes about the nodes' answers. It returns an error if a node hasn't answered.
func finish(cmd *cobra.Command, answers []fleet.Answer) error {
	for _, note := range rows.Notes(answers, buildVersion()) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", program, terminal.Escape(note))
	}
	if silent := rows.Silent(answers); silent != "" {
		return failure{errors.New("no answer from " + silent)}
	}
	return nil
}

// nodeAndCards returns a shell completion for a node's name followed by the addresses of cards on that node. It
// completes up to the given number of cards, or any number if most is 0.
func (c *cluster) nodeAndCards(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return c.nodes(1)(cmd, args, begin)
		}
		var cards []string
		if most == 0 || len(args) <= most {
			answers, _ := c.ask(cmd, args[:1], false) // without an answer, there are no cards to complete
			for _, r := range rows.Devices(answers, nil, false) {
				card, _, _ := strings.Cut(rows.Text(r["id"]), "-p")
				cards = append(cards, card)
			}
		}
		return slices.Compact(cards), cobra.ShellCompDirectiveNoFileComp
	}
}

// nodes returns a shell completion for the names of nodes that run one of the plugin's pods. It completes up to the
// given number of nodes, or any number if most is 0.
func (c *cluster) nodes(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		var names []string
		if f, err := c.fleet(cmd); err == nil && (most == 0 || len(args) < most) {
			ctx, cancel := context.WithTimeout(cmd.Context(), c.timeout)
			defer cancel()
			targets, _ := f.Targets(ctx) // without an answer, there are no names to complete
			for _, t := range targets {
				names = append(names, t.Node)
			}
		}
		return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
	}
}
