package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	_ "golang.org/x/crypto/x509roots/fallback" // Mozilla's CA certificates, for systems that don't have any, such as our image
	"oras.land/oras-go/v2/registry"

	"b-com.com/accelerator-device-plugin/internal/release"
	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/registry/transfer"
)

// version is set at build time by the Makefile.
var version = ""

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	// After the first signal, restore the default action, so that a second one kills the process.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run executes a command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	text := short(err.Error())
	if errors.As(err, new(failure)) {
		fmt.Fprintf(stderr, "%s: %s\n", cmd.CommandPath(), text)
		return 1
	}
	fmt.Fprintf(stderr, "%s: %s (see %[1]s --help)\n", cmd.CommandPath(), text)
	return 2
}

// short returns text as a single line of limited length, because the text may come from a registry.
func short(text string) string {
	const longest = 1000
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + " …"
	}
	return terminal.Escape(text)
}

// failure is an error that wasn't caused by the command line.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

func asFailure(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

const rootHelp = `Move bitstreams between this node and OCI registries. accelerator-fpga runs this
program for its pull, push and keep commands.

Exit codes: 0 success, 1 failure, 2 usage error.`

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:               "accelerator-fpga-registry",
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "accelerator-fpga"},
		Short:             "Pull and push bitstreams in OCI registries",
		Long:              rootHelp,
		Example:           "  accelerator-fpga pull registry.example.com/fpga/nlb:1.0",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		RunE:              func(*cobra.Command, []string) error { return errors.New("command: found none") },
	}
	root.AddCommand(newPull(), newPush(), newKeep(), &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  accelerator-fpga-registry version",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), release.Line("accelerator-fpga-registry", release.Version(version)))
			return asFailure(err)
		},
	})
	return root
}

// settings holds the flags that pull and push share.
type settings struct {
	caFile  string
	plain   bool
	timeout time.Duration
	output  string
	quiet   bool
}

func (s *settings) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.caFile, "ca-file", "", "`file` with additional CA certificates (PEM) for the registry")
	f.BoolVar(&s.plain, "plain-http", false, "use HTTP instead of HTTPS; connections are not protected")
	f.DurationVar(&s.timeout, "timeout", time.Hour, "time `limit` for the whole transfer")
	f.StringVarP(&s.output, "output", "o", "", "output `format`: json (default: text)")
	f.BoolVarP(&s.quiet, "quiet", "q", false, "print only errors")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if s.output != "" && s.output != "json" {
			return fmt.Errorf("--output: found %q, want json", s.output)
		}
		if s.timeout <= 0 {
			return fmt.Errorf("--timeout: found %s, want more than 0s", s.timeout)
		}
		return nil
	}
}

// open returns a client that doesn't report progress.
func (s *settings) open() (*transfer.Client, error) {
	c := &transfer.Client{PlainHTTP: s.plain, Stall: 30 * time.Second, UserAgent: "accelerator-fpga/" + release.Version(version)}
	if s.caFile != "" {
		text, err := os.ReadFile(s.caFile)
		if err != nil {
			return nil, err
		}
		if c.Roots, err = x509.SystemCertPool(); err != nil {
			return nil, err
		}
		if !c.Roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--ca-file: found no certificate in %s, want some in PEM", s.caFile)
		}
	}
	var err error
	c.Credential, err = transfer.DockerCredentials()
	return c, err
}

// client returns a client that shows progress on stderr, a context that expires after --timeout, and a function that
// the caller must call at the end.
func (s *settings) client(cmd *cobra.Command, doing string, ref registry.Reference) (*transfer.Client, context.Context, func(), error) {
	c, err := s.open()
	if err != nil {
		return nil, nil, nil, err
	}
	p := newProgress(cmd.ErrOrStderr(), s.quiet, doing+" "+ref.String())
	c.Log, c.Progress = p.log, p.show
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), s.timeout, fmt.Errorf("not done after %s (--timeout)", s.timeout))
	return c, ctx, func() { cancel(); p.clear() }, nil
}
