module b-com.com/accelerator-device-plugin/registry

go 1.26.0

replace b-com.com/accelerator-device-plugin => ../

require (
	b-com.com/accelerator-device-plugin v0.0.0-00010101000000-000000000000
	github.com/google/go-cmp v0.7.0
	github.com/opencontainers/go-digest v1.0.0
	github.com/opencontainers/image-spec v1.1.1
	github.com/spf13/cobra v1.10.2
	oras.land/oras-go/v2 v2.7.0
)

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/spf13/pflag v1.0.10 // indirect
	golang.org/x/sync v0.24.0 // indirect
)
