function Invoke-SQLServerSetup {
    # Runs the setup program of SQL Server, unless an instance is installed.
    param([Parameter(Mandatory)] [System.Collections.IDictionary] $Options, [string] $SetupRoot = 'C:\Prerequisites\SQLServer')
    if (Get-Service -Name 'MSSQLSERVER' -ErrorAction SilentlyContinue) {
        Write-Log 'SQL Server is installed already'
        return
    }
    $setup = Join-Path $SetupRoot 'setup.exe'
    if (-not (Test-Path $setup)) { throw "The setup program of SQL Server is missing: $setup" }
    $process = Start-Process $setup -ArgumentList (ConvertTo-OptionList $Options) -Wait -PassThru
    if ($process.ExitCode -notin 0, 3010) { throw "The setup of SQL Server ended with $($process.ExitCode)" }
}
