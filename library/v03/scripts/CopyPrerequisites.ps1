function Copy-Prerequisites {
    # Copies installation files from the file share of the installation, if there is one.
    param([Parameter(Mandatory)] [string] $Destination, [string] $Source = $env:MuranoFileShare)
    if (-not (Test-Path $Destination)) { New-Item -ItemType Directory -Path $Destination | Out-Null }
    if ($Source -and (Test-Path $Source)) {
        Copy-Item -Path (Join-Path $Source 'Prerequisites\*') -Destination $Destination -Recurse -Force
    } else {
        Write-Log 'There is no file share: what is installed already must do' 'WARNING'
    }
}
