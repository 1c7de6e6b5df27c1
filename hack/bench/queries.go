package main

import _ "embed" // the statements are files

var (
	//go:embed queries/register.sql
	registerSQL string
	//go:embed queries/unsettled.sql
	unsettledSQL string
	//go:embed queries/live_workers.sql
	liveWorkersSQL string
	//go:embed queries/settings.sql
	settingsSQL string
)
