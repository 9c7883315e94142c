package aws

var (
	ApplicationOf = applicationOf
	IDsOf         = idsOf
)
