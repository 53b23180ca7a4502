function Start-PowerShellProcess {
    # Runs a script block in a process of another user and returns its output.
    param([Parameter(Mandatory)] [string] $Command, [Parameter(Mandatory)] [pscredential] $Credential)
    $encoded = [Convert]::ToBase64String([Text.Encoding]::Unicode.GetBytes($Command))
    $output = [IO.Path]::GetTempFileName()
    $errors = [IO.Path]::GetTempFileName()
    try {
        $process = Start-Process powershell.exe -Credential $Credential -Wait -PassThru -WorkingDirectory $env:windir `
            -ArgumentList '-NoProfile', '-NonInteractive', '-EncodedCommand', $encoded `
            -RedirectStandardOutput $output -RedirectStandardError $errors
        if ($process.ExitCode -ne 0) { throw "The process ended with $($process.ExitCode): $(Get-Content $errors -Raw)" }
        Get-Content $output
    } finally {
        Remove-Item $output, $errors -ErrorAction SilentlyContinue
    }
}
