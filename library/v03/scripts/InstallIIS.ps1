function Install-WebServer {
    # Installs IIS with ASP.NET, and Web Deploy if its installer is among the prerequisites.
    param([string] $PrerequisitesPath)
    Install-Feature -Name Web-Server, Web-Asp-Net45, Web-Mgmt-Console
    $installer = if ($PrerequisitesPath) { Join-Path $PrerequisitesPath 'WebDeploy.msi' }
    if ($installer -and (Test-Path $installer)) {
        $process = Start-Process msiexec.exe -ArgumentList '/i', "`"$installer`"", '/qn', '/norestart' -Wait -PassThru
        if ($process.ExitCode -notin 0, 3010) { throw "Web Deploy: msiexec ended with $($process.ExitCode)" }
    }
    New-NetFirewallRule -DisplayName 'Web server' -Direction Inbound -Protocol TCP -LocalPort 80, 443 -Action Allow -ErrorAction SilentlyContinue | Out-Null
    Write-Log 'The web server is installed'
}
