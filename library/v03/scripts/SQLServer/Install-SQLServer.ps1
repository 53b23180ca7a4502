function Install-SQLServer {
    # One stand-alone server with a default instance.
    param([string] $SAPassword, [bool] $MixedModeAuth)
    Invoke-SQLServerSetup -Options (New-SQLServerOptions -SAPassword $SAPassword -MixedModeAuth $MixedModeAuth)
    Write-Log 'SQL Server is installed'
}
